-- `sbatch` prints when a job is expected to start and what it will cost (docs/how-to/slurm.md): what
-- Coplace notes in the job. Only people wait for that, and no longer than this.
local WAITS_S = 2
local NOTED = "coplace: "

local function say(command)
   local pipe = io.popen(command .. " 2>/dev/null")
   local said = pipe and pipe:read("*a") or ""
   if pipe then
      pipe:close()
   end
   return said
end

local function note_of(job)
   local shown = say(string.format("squeue --noheader --states=all --jobs=%d --Format=SystemComment:300,Comment:300", job))
   local from = shown:find(NOTED, 1, true)
   return from and shown:sub(from, from + 299):gsub("%s+$", "")
end

-- Whether a person has called sbatch. Who waits in srun and salloc is told there.
local function is_awaited()
   local program = io.open("/proc/self/comm")
   local name = program and program:read("*l") or ""
   if program then
      program:close()
   end
   local answer = name == "sbatch" and os.execute("test -t 2")
   -- Lua 5.1 answers with a number.
   return answer == true or answer == 0
end

function slurm_cli_setup_defaults(options, early)
   return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
   return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job, step)
   if not is_awaited() then
      return slurm.SUCCESS
   end
   local until_s = os.time() + WAITS_S
   while os.time() <= until_s do
      local note = note_of(job)
      if note then
         io.stderr:write(note, "\n")
         return slurm.SUCCESS
      end
      os.execute("sleep 0.2")
   end
   return slurm.SUCCESS
end

return slurm.SUCCESS
