-- An entry of the ledger: subject, account, revision, amount (0.000001 SU, never negative), and what
-- is put on other accounts: JSON pairs of account and amount, or empty.
-- KEYS behind the position: spent by account, last entry by subject.
-- Amounts stay strings: Lua's numbers are doubles, Redis adds 64-bit integers.
local fields = 5

local function add(account, amount)
  if amount ~= '0' and amount ~= '-0' then
    redis.call('HINCRBY', KEYS[2], account, amount)
  end
end

local function pairs_of(account, amount, surcharges)
  local found = surcharges ~= '' and cjson.decode(surcharges) or {}
  table.insert(found, 1, { account, amount })
  return found
end

-- What may overflow is added whole or not at all: a script that fails keeps what it has done.
local function add_all(found)
  for i, pair in ipairs(found) do
    local done, failure = pcall(add, pair[1], pair[2])
    if not done then
      for j = 1, i - 1 do
        add(found[j][1], '-' .. found[j][2])
      end
      error(failure, 0)
    end
  end
end

local function apply(first)
  local subject, account, revision, amount = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3]
  local surcharges = ARGV[first + 4]
  local known = redis.call('HGET', KEYS[3], subject) or ''
  local known_revision, known_amount, known_account = string.match(known, '^(%d+) (%d+) (.*)$')
  if not known_revision or tonumber(revision) > tonumber(known_revision) then
    add_all(pairs_of(account, amount, surcharges))
    -- No name holds a line's end.
    local others = subject .. '\n'
    if known_revision then
      local before = redis.call('HGET', KEYS[3], others) or ''
      for _, pair in ipairs(pairs_of(known_account, known_amount, before)) do
        add(pair[1], '-' .. pair[2])
      end
      redis.call('HDEL', KEYS[3], others)
    end
    redis.call('HSET', KEYS[3], subject, revision .. ' ' .. amount .. ' ' .. account)
    if surcharges ~= '' then
      redis.call('HSET', KEYS[3], others, surcharges)
    end
  end
end

