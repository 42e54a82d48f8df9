# For /etc/profile.d: `squeue` shows why a job waits for Coplace, and when it is expected to start (docs/how-to/slurm.md).
case "$(squeue --version 2>/dev/null)" in
"") ;;
*" 2"[0-4].*)
    # These releases let nobody set SystemComment: the note is the Comment.
    export SQUEUE_FORMAT="%.10i %.9P %.12j %.8u %.2t %.10M %.5D %R %k"
    ;;
*)
    export SQUEUE_FORMAT2="JobArrayID:10 ,Partition:9 ,Name:12 ,UserName:8 ,StateCompact:3 ,TimeUsed:10 ,NumNodes:6 ,ReasonList:20 ,system_comment:120"
    ;;
esac
