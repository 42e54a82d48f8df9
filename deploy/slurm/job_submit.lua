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

-- What its user holds has this in its comment, which its user may write, with the second since which.
local held = "coplace held by its user"
-- In the administrator's comment of a job that Slurm starts by its own rules.
local given_back = "coplace given back"

-- The process beside Slurm looks when this file has another time, and else every some seconds.
local submitted = "/var/lib/coplace-slurm/submitted"

local function leave_word()
   local file = io.open(submitted, "w")
   if file then
      file:write("\n")
      file:close()
   end
end

-- Where the mark of a hold is in a comment, with its time.
local function find_mark(comment)
   local from, to = comment:find(" ?" .. held)
   if from then
      local _, behind = comment:find("^ at %d+", to + 1)
      return from, behind or to
   end
end

local function without_mark(comment)
   local from, to = find_mark(comment)
   return from and comment:sub(1, from - 1) .. comment:sub(to + 1) or comment
end

local function with_mark(comment, mark)
   local rest = without_mark(comment)
   return rest == "" and mark or rest .. " " .. mark
end

local function new_mark()
   return held .. " at " .. os.time()
end

-- The mark of a comment, which is kept over notes.
local function mark_of(comment)
   local from, to = find_mark(comment)
   return from and comment:sub(from, to):gsub("^ ", "") or new_mark()
end

function slurm_job_submit(job, partitions, user)
   if job.priority == 0 then
      -- sbatch --hold: what its user holds Coplace does not release.
      job.comment = with_mark(job.comment or "", new_mark())
   end
   -- Its words are of Coplace alone.
   job.admin_comment = ""
   job.priority = 0
   leave_word()
   return slurm.SUCCESS
end

function slurm_job_modify(job, existing, partitions, user)
   local is_operator = user == 0 or user == slurm_user
   if not is_operator then
      leave_word()
   end
   local is_release = job.priority ~= nil and job.priority ~= slurm.NO_VAL and job.priority ~= 0
   local before = existing.comment or ""
   local comment = job.comment or before
   local is_held = before:find(held, 1, true) ~= nil or comment:find(held, 1, true) ~= nil
   local is_slurms = (existing.admin_comment or ""):find(given_back, 1, true) ~= nil
   if job.priority == 0 and not is_operator then
      job.comment = with_mark(comment, new_mark())
   elseif is_release and is_held then
      local rest = without_mark(comment)
      -- Slurm does not take an empty one.
      job.comment = rest == "" and "let in by its user" or rest
      if not is_slurms and not is_operator then
         -- It waits for Coplace as before.
         job.priority = slurm.NO_VAL
      end
   elseif is_operator and job.comment ~= nil and is_held then
      -- A note may come a moment after a hold.
      job.comment = with_mark(comment, mark_of(before .. " " .. comment))
   elseif is_release and existing.priority == 0 and not is_operator and not is_slurms then
      slurm.log_user("Coplace decides when this job starts: coplace why, coplace release")
      return slurm.ERROR
   end
   return slurm.SUCCESS
end
