-- Jobs wait until Coplace decides where and when they start (docs/how-to/slurm.md).

function slurm_job_submit(job, partitions, user)
   job.priority = 0
   return slurm.SUCCESS
end

function slurm_job_modify(job, existing, partitions, user)
   return slurm.SUCCESS
end
