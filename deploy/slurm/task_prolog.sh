#!/bin/sh
# Steps of a job run at the clock that Coplace decided (docs/how-to/slurm.md). srun reads it in kHz.
freq_ghz=$(scontrol show job "$SLURM_JOB_ID" --oneliner |
    sed -n 's/.*AdminComment=coplace [^=]*=[0-9]* started freq_ghz=\([0-9.]*\).*/\1/p')
[ -z "$freq_ghz" ] ||
    awk -v ghz="$freq_ghz" 'BEGIN { printf "export SLURM_CPU_FREQ_REQ=%d\n", ghz * 1e6 + 0.5 }'
