-- asidedone.lua: settle messages that were kept aside, if the worker that decided them is still itself. It may run twice.
-- KEYS[1] heartbeat of the worker   KEYS[2] intake:aside:{queue}, stream   KEYS[3] intake:aside-bytes, hash
-- ARGV[1] token under which they were delivered   ARGV[2] group   ARGV[3] field of KEYS[3]   ARGV[4...] ids, 256 at most
-- Reply   {"ok"} (also if they are settled already) | {"lost"}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
local bytes = 0
for i = 4, #ARGV do
  local entry = redis.call('XRANGE', KEYS[2], ARGV[i], ARGV[i])[1]
  if entry then
    for j = 1, #entry[2], 2 do
      if entry[2][j] == 'message' then bytes = bytes + #entry[2][j + 1] end
    end
  end
end
local held = tonumber(redis.call('HGET', KEYS[3], ARGV[3]) or '0')
-- Nothing above this line writes.
redis.call('XACK', KEYS[2], ARGV[2], unpack(ARGV, 4))
redis.call('XDEL', KEYS[2], unpack(ARGV, 4))
if held - bytes > 0 then redis.call('HSET', KEYS[3], ARGV[3], held - bytes) else redis.call('HDEL', KEYS[3], ARGV[3]) end
return {'ok'}
