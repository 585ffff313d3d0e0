-- post.lua: post records, all or nothing. A record that is there already stays; a call that ran already gives its reply again.
-- KEYS[1] listings (hash)   KEYS[2] sequence   KEYS[3] what this call gave, kept for repetitions
-- ARGV[1] ms to keep that   ARGV[2] channel of events   ARGV[3] '1' = not without the counter, if there are postings
-- ARGV[4...] per record: field, its MessagePack map without the last value, the sequence number
-- Reply: {server time in µs, per record: its sequence number | the record that is there (text), '' if it has gone since} | {server time, 'lost'} the counter is, and nothing was posted
local now = redis.call('TIME')
local reply = {now[1] * 1000000 + now[2]}
local known = redis.call('GET', KEYS[3])
if known then
  for i, n in ipairs(cmsgpack.unpack(known)) do
    reply[i + 1] = n > 0 and n or redis.call('HGET', KEYS[1], ARGV[2 * i + 2]) or ''
  end
  return reply
end
if ARGV[3] == '1' and redis.call('EXISTS', KEYS[2]) == 0 and redis.call('EXISTS', KEYS[1]) == 1 then
  reply[2] = 'lost'
  return reply
end
local numbers, fresh, seen = {}, 0, {}
for i = 4, #ARGV, 2 do
  if not seen[ARGV[i]] and redis.call('HEXISTS', KEYS[1], ARGV[i]) == 0 then fresh = fresh + 1 end
  seen[ARGV[i]] = true
end
local last = 0
if fresh > 0 then last = redis.call('INCRBY', KEYS[2], fresh) - fresh end
for i = 4, #ARGV, 2 do
  local n = 0
  if redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[i + 1] .. cmsgpack.pack(last + 1)) == 1 then
    last = last + 1
    n = last
  end
  numbers[#numbers + 1] = n
  reply[#reply + 1] = n > 0 and n or redis.call('HGET', KEYS[1], ARGV[i])
end
redis.call('SET', KEYS[3], cmsgpack.pack(numbers), 'PX', ARGV[1])
if fresh > 0 then redis.call('PUBLISH', ARGV[2], 'posted') end
return reply
