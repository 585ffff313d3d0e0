-- collect.lua: submit the aggregate of a collection that is due.
-- KEYS[1] collecting zset   KEYS[2] what is collected   KEYS[3] stream of the aggregate
-- ARGV[1] collection   ARGV[2] queue of that stream
-- Reply: {"ok"} | {"later"}: it is not due, or another process was quicker | {"broken"}: it is none, or belongs to another queue; it is put off for a minute
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
if not score or tonumber(score) > now + 0.0005 then return {'later'} end
local function broken()
  redis.call('ZADD', KEYS[1], string.format('%.3f', now + 60), ARGV[1])
  return {'broken'}
end
if wrong(KEYS[2], 'hash') or wrong(KEYS[3], 'stream') then return broken() end
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return {'later'}
end
local c = redis.call('HMGET', KEYS[2], 'queue', 'n', 'head', 'tail')
if c[1] ~= ARGV[2] or not tonumber(c[2]) or not c[3] or not c[4] then return broken() end
for i = 1, tonumber(c[2]) do
  if redis.call('HEXISTS', KEYS[2], i) == 0 then return broken() end
end
flush(KEYS[1], KEYS[2], ARGV[1], KEYS[3])
return {'ok'}
