-- park.lua: set tasks of paused types aside, if the worker that met them is still itself.
-- KEYS[1] heartbeat of the worker   KEYS[2] stream   KEYS[3] delayed zset   KEYS[4] control hash   KEYS[5] counters
-- KEYS[6...] per entry: parked zset of its type
-- ARGV[1] token under which they were delivered   ARGV[2] group   ARGV[3] number of entries, 1 to 256, then their ids
-- then    number of counters, and of each: field, by how much
-- then    per entry: entry id, field of the control hash that pauses it, "" or the SHA-1 (hex) of the value that does, delay in ms, message
-- Reply: {"ok", entries that had not ended before} | {"lost"}: nothing done
-- Who was resumed meanwhile is not parked, for nobody would fetch it, but put into the delayed set.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
for i, key in ipairs(KEYS) do
  local want = i == 1 and 'string' or i == 2 and 'stream' or (i == 4 or i == 5) and 'hash' or 'zset'
  local have = redis.call('TYPE', key).ok
  if have ~= 'none' and have ~= want then return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. have) end
end
local n = tonumber(ARGV[3])
local counters = 4 + n
local items = counters + 1 + 2 * tonumber(ARGV[counters])
-- Nothing above this line writes. Below: XACK, ZADD parked or delayed, HINCRBY counters, XDEL.
local acked = redis.call('XACK', KEYS[2], ARGV[2], unpack(ARGV, 4, 3 + n))
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
for i = 1, n do
  local p = items + 5 * (i - 1)
  if acked == n or #redis.call('XRANGE', KEYS[2], ARGV[p], ARGV[p]) > 0 then
    local why = ARGV[p + 1] ~= '' and redis.call('HGET', KEYS[4], ARGV[p + 1])
    if why and (ARGV[p + 2] == '' or redis.sha1hex(why) == ARGV[p + 2]) then
      redis.call('ZADD', KEYS[5 + i], string.format('%.0f', now * 1000), ARGV[p + 4])
    else
      local due = string.format('%.3f', now + tonumber(ARGV[p + 3]) / 1000)
      redis.call('ZADD', KEYS[3], due, ARGV[p + 4])
      redis.call('PUBLISH', KEYS[3], due)
    end
  end
end
if acked > 0 then
  for p = counters + 1, items - 1, 2 do redis.call('HINCRBY', KEYS[5], ARGV[p], ARGV[p + 1]) end
end
redis.call('XDEL', KEYS[2], unpack(ARGV, 4, 3 + n))
return {'ok', acked}
