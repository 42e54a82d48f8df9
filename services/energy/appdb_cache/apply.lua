-- A row of the application database: its key, the event time of this state (us), the state.
-- KEYS behind the position: rows by key, each its time, a space and its state.
-- A state that is older than the one that is there changes nothing.
local fields = 3

local function apply(first)
  local key, time_us, state = ARGV[first], ARGV[first + 1], ARGV[first + 2]
  local known_us = string.match(redis.call('HGET', KEYS[2], key) or '', '^(%d+) ')
  if not known_us or tonumber(time_us) >= tonumber(known_us) then
    redis.call('HSET', KEYS[2], key, time_us .. ' ' .. state)
  end
end

