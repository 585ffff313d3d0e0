-- block.lua: put tasks that were refused a lock back into the delayed set, if the worker that tried is still itself.
-- KEYS[1] heartbeat of the worker   KEYS[2] stream   KEYS[3] delayed zset   KEYS[4] blocked hash   KEYS[5] counters
-- ARGV[1] token under which they were delivered   ARGV[2] group   ARGV[3] number of entries, 1 to 256, then their ids
-- then    number of counters, and of each: field, by how much
-- then    per entry: entry id, task id, delay in ms, message
-- Reply: {"ok", entries that had not ended before} | {"lost"}: nothing done
-- Whatever waits is found by wake.lua under its task id; an entry is put back once, as in finish.lua.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
for i, want in ipairs({'zset', 'hash', 'hash'}) do
  local have = redis.call('TYPE', KEYS[2 + i]).ok
  if have ~= 'none' and have ~= want then return redis.error_reply('WRONGTYPE ' .. KEYS[2 + i] .. ' is a ' .. have) end
end
local n = tonumber(ARGV[3])
local counters = 4 + n
local items = counters + 1 + 2 * tonumber(ARGV[counters])
-- Nothing above this line writes. Below: XACK, ZADD delayed, HSET blocked, HINCRBY counters, XDEL.
local acked = redis.call('XACK', KEYS[2], ARGV[2], unpack(ARGV, 4, 3 + n))
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')[2]
first = first and tonumber(first)
for p = items, #ARGV, 4 do
  if acked == n or #redis.call('XRANGE', KEYS[2], ARGV[p], ARGV[p]) > 0 then
    local due = now + tonumber(ARGV[p + 2]) / 1000
    redis.call('ZADD', KEYS[3], string.format('%.3f', due), ARGV[p + 3])
    redis.call('HSET', KEYS[4], ARGV[p + 1], ARGV[p + 3])
    if not first or due < first then
      first = due
      redis.call('PUBLISH', KEYS[3], string.format('%.3f', due))
    end
  end
end
if acked > 0 then
  for p = counters + 1, items - 1, 2 do redis.call('HINCRBY', KEYS[5], ARGV[p], ARGV[p + 1]) end
end
redis.call('XDEL', KEYS[2], unpack(ARGV, 4, 3 + n))
return {'ok', acked}
