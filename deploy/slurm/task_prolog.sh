#!/bin/sh
# Steps of a job run at the clock that Coplace decided (docs/how-to/slurm.md). srun reads it in kHz.
# Of a heterogeneous job all parts are shown, whose clocks are the same.
# LC_ALL: what else is shown of a job may have bytes that are not UTF-8, at which sed stops matching.
freq_ghz=$(scontrol show job "$SLURM_JOB_ID" --oneliner |
    LC_ALL=C sed -n 's/.*AdminComment=coplace [^=]*=[0-9]* started freq_ghz=\([0-9.]*\).*/\1/p' |
    head -n 1)
[ -z "$freq_ghz" ] ||
    awk -v ghz="$freq_ghz" 'BEGIN { printf "export SLURM_CPU_FREQ_REQ=%d\n", ghz * 1e6 + 0.5 }'
