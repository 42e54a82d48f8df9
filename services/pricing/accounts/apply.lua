-- Applies entries of one Kafka partition of the ledger to the accounts, all or nothing.
-- KEYS: position of the Kafka partition, spent by account, last entry by subject.
-- ARGV: the position that was read from, the position after this batch, and for each entry
--       offset, subject, account, revision, amount (0.000001 SU, never negative).
-- Amounts stay strings: Lua's numbers are doubles, Redis adds 64-bit integers.
local position = tonumber(redis.call('GET', KEYS[1]) or '0')
if position < tonumber(ARGV[1]) then
  return redis.error_reply('BEHIND the ledger is applied up to ' .. string.format('%d', position))
end

local function add(account, amount)
  if amount ~= '0' and amount ~= '-0' then
    redis.call('HINCRBY', KEYS[2], account, amount)
  end
end

for i = 3, #ARGV, 5 do
  local subject, account, revision, amount = ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  if tonumber(ARGV[i]) >= position then
    local known = redis.call('HGET', KEYS[3], subject) or ''
    local known_revision, known_amount, known_account = string.match(known, '^(%d+) (%d+) (.*)$')
    if not known_revision or tonumber(revision) > tonumber(known_revision) then
      if known_revision then
        add(known_account, '-' .. known_amount)
      end
      add(account, amount)
      redis.call('HSET', KEYS[3], subject, revision .. ' ' .. amount .. ' ' .. account)
    end
  end
end

if tonumber(ARGV[2]) > position then
  redis.call('SET', KEYS[1], ARGV[2])
end
return redis.status_reply('OK')
