#!/usr/bin/env bash
# Runs a broker whose settings are KAFKA_* variables: _ means ., __ means _, ___ means -.
set -euo pipefail

config=/tmp/server.properties
# Compiled quickly, not well: a check lives for minutes.
java=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx512m -cp '/opt/kafka/libs/*')

for name in "${!KAFKA_@}"; do
    key=${name#KAFKA_}
    key=${key//___/-}
    key=${key//__/%}
    key=${key//_/.}
    key=${key//%/_}
    echo "${key,,}=${!name}"
done >"$config"
"${java[@]}" kafka.tools.StorageTool format --ignore-formatted \
    -t "${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}" -c "$config"
exec "${java[@]}" kafka.Kafka "$config"
