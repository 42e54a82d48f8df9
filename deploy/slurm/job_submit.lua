-- Jobs wait until Coplace decides where and when they start (docs/how-to/slurm.md).
-- Arrays are started by Slurm itself: their tasks become jobs only when they start.

function slurm_job_submit(job, partitions, user)
   if job.array_inx == nil then
      job.priority = 0
   end
   return slurm.SUCCESS
end

function slurm_job_modify(job, existing, partitions, user)
   return slurm.SUCCESS
end
