-- An entry of the ledger: subject, account, revision, amount (0.000001 SU, never negative).
-- KEYS behind the position: spent by account, last entry by subject.
-- Amounts stay strings: Lua's numbers are doubles, Redis adds 64-bit integers.
local fields = 4

local function add(account, amount)
  if amount ~= '0' and amount ~= '-0' then
    redis.call('HINCRBY', KEYS[2], account, amount)
  end
end

local function apply(first)
  local subject, account, revision, amount = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
  local known = redis.call('HGET', KEYS[3], subject) or ''
  local known_revision, known_amount, known_account = string.match(known, '^(%d+) (%d+) (.*)$')
  if not known_revision or tonumber(revision) > tonumber(known_revision) then
    -- First what may overflow: a script that fails keeps what it has done.
    add(account, amount)
    if known_revision then
      add(known_account, '-' .. known_amount)
    end
    redis.call('HSET', KEYS[3], subject, revision .. ' ' .. amount .. ' ' .. account)
  end
end

