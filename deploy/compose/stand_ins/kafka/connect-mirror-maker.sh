#!/usr/bin/env bash
# MirrorMaker 2 with the settings in a file, called as that of Kafka's own packages is.
set -euo pipefail

# shellcheck disable=SC2086 # both are lists of words
exec java ${KAFKA_HEAP_OPTS:--Xmx512m} ${KAFKA_LOG4J_OPTS:-} -cp '/opt/kafka/libs/*' \
    org.apache.kafka.connect.mirror.MirrorMaker "$@"
