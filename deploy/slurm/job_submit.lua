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
   else
      -- Its words are of Coplace alone.
      job.admin_comment = ""
   end
   job.priority = 0
   return slurm.SUCCESS
end

function slurm_job_modify(job, existing, partitions, user)
   local is_operator = user == 0 or user == slurm_user
   local is_release = job.priority ~= nil and job.priority ~= slurm.NO_VAL and job.priority ~= 0
   -- Slurm starts heterogeneous jobs itself: their users let them in.
   local het_job = existing.het_job_id
   local is_part = het_job ~= nil and het_job ~= 0 and het_job ~= slurm.NO_VAL
   if is_release and existing.priority == 0 and not is_operator and not is_part then
      slurm.log_user("Coplace decides when this job starts: coplace why, coplace release")
      return slurm.ERROR
   end
   return slurm.SUCCESS
end
