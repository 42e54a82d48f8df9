-- Applies entries of one Kafka partition to a read model, all or nothing. Runs behind a script of
-- the read model's own, which defines `fields`, how many an entry has, and `apply(first)`: what the
-- entry whose fields begin at ARGV[first] changes.
-- KEYS: position of the Kafka partition, then those of the read model, then what identifies the
--       record that was applied last.
-- ARGV: the position that was read from, the position after this batch, what identifies its last
--       record (empty: nothing does), and for each entry its offset and fields.
local position = tonumber(redis.call('GET', KEYS[1]) or '0')
if position < tonumber(ARGV[1]) then
  return redis.error_reply('BEHIND the topic is applied up to ' .. string.format('%d', position))
end

for i = 4, #ARGV, 1 + fields do
  if tonumber(ARGV[i]) >= position then
    apply(i + 1)
  end
end

if tonumber(ARGV[2]) > position then
  redis.call('SET', KEYS[1], ARGV[2])
  if ARGV[3] ~= '' then
    redis.call('SET', KEYS[#KEYS], ARGV[3])
  end
end
return redis.status_reply('OK')
