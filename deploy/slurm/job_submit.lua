-- Jobs wait until Coplace decides where and when they start (docs/how-to/slurm.md).

-- Who slurmctld runs as: SlurmUser. He and root may release jobs.
local function own_user()
   for line in io.lines("/proc/self/status") do
      local uid = line:match("^Uid:%s+(%d+)")
      if uid then
         return tonumber(uid)
      end
   end
end

local slurm_user = own_user()

function slurm_job_submit(job, partitions, user)
   if job.priority == 0 then
      -- sbatch --hold: what its user holds Coplace does not release.
      job.admin_comment = "coplace held by its user"
   end
   job.priority = 0
   return slurm.SUCCESS
end

function slurm_job_modify(job, existing, partitions, user)
   local is_operator = user == 0 or user == slurm_user
   local is_release = job.priority ~= nil and job.priority ~= slurm.NO_VAL and job.priority ~= 0
   if is_release and existing.priority == 0 and not is_operator then
      slurm.log_user("Coplace decides when this job starts: coplace why, coplace release")
      return slurm.ERROR
   end
   return slurm.SUCCESS
end
