-- Keeps each run that ended in a file, which the process beside Slurm publishes and removes
-- (docs/how-to/slurm.md). SlurmUser owns the folder.

local folder = "/var/lib/coplace-slurm/ended"

-- Numbers from here on say that there is none.
local NO_NUMBER = 4294967294
local STATES = { [0] = "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT",
   "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY" }

-- A text as JSON has it; bytes that are not UTF-8 stay.
local function quoted(text)
   local escaped = text:gsub('[%c"\\]', function(sign)
      return string.format("\\u%04x", sign:byte())
   end)
   return '"' .. escaped .. '"'
end

local function shown(value)
   if type(value) == "number" then
      return value < NO_NUMBER and string.format("%d", value) or "null"
   end
   return value and quoted(value) or "null"
end

local function time(seconds)
   if not seconds or seconds <= 0 then
      return "null"
   end
   return os.date('!"%Y-%m-%dT%H:%M:%SZ"', seconds)
end

local function record(job)
   local has_run = job.nodes ~= nil and job.nodes ~= ""
   local fields = {
      jobid = shown(job.job_id),
      array_job_id = shown(job.array_job_id),
      array_task_id = shown(job.array_task_id),
      het_job_id = shown(job.het_job_id),
      het_job_offset = job.het_job_id ~= 0 and shown(job.het_job_offset) or "null",
      username = shown(job.user_name),
      user_id = shown(job.user_id),
      account = shown(job.account),
      job_name = shown(job.name),
      comment = shown(job.comment),
      admin_comment = shown(job.admin_comment),
      partition = shown(job.partition),
      qos = shown(job.qos),
      ["@submit"] = time(job.submit_time),
      ["@start"] = has_run and time(job.start_time) or "null",
      ["@end"] = time(job.end_time),
      time_limit = job.time_limit < NO_NUMBER and shown(job.time_limit * 60) or "null",
      nodes = shown(job.nodes),
      total_nodes = has_run and shown(job.total_nodes) or "0",
      total_cpus = has_run and shown(job.total_cpus) or "0",
      tres_req = shown(job.tres_fmt_req_str),
      tres_alloc = shown(job.tres_fmt_alloc_str),
      exit_code = job.exit_code and job.exit_code < NO_NUMBER
         and quoted(string.format("%d:%d", math.floor(job.exit_code / 256) % 256, job.exit_code % 128)) or "null",
      state = quoted(STATES[job.job_state % 256] or "UNKNOWN"),
   }
   local parts = {}
   for name, value in pairs(fields) do
      parts[#parts + 1] = quoted(name) .. ":" .. value
   end
   return "{" .. table.concat(parts, ",") .. "}\n"
end

local function write(path, text)
   local file, problem = io.open(path, "wb")
   if not file then
      return problem
   end
   local is_written, failure = file:write(text)
   local is_closed, late = file:close()
   return not is_written and failure or not is_closed and late or nil
end

-- Runs that ended of late. A requeue of a job that had ended says that its run went on until then.
local MOST_ENDED = 50000
local ended, ended_before, count = {}, {}, 0

local function note_end(name)
   if count == MOST_ENDED then
      ended, ended_before, count = {}, ended, 0
   end
   ended[name], count = true, count + 1
end

function slurm_jobcomp_log_record(job)
   local name = string.format("%d-%d", job.job_id, job.submit_time)
   local resized = string.format("%s/resized-%s", folder, name)
   local problem
   if ended[name] or ended_before[name] then
      return slurm.SUCCESS
   elseif job.resizing ~= 0 then
      -- When it got the nodes that it gives up is not known here: squeue and accounts report its parts.
      problem = write(resized, "")
   elseif not os.remove(resized) then
      local file = string.format("%s/%d-%s.json", folder, os.time(), name)
      problem = write(file .. ".new", record(job))
      if not problem then
         local _, failure = os.rename(file .. ".new", file)
         problem = failure
      end
      if not problem then
         note_end(name)
      end
   end
   if problem then
      slurm.log_error("coplace: the end of job %s is not kept: %s", name, problem)
      return slurm.ERROR
   end
   return slurm.SUCCESS
end

return slurm.SUCCESS
