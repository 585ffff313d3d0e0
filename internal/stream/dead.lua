-- dead.lua: move an entry to the dead letters, if the worker that holds it is still itself.
-- KEYS[1] heartbeat of the worker   KEYS[2] stream   KEYS[3] dead letter stream
-- ARGV[1] token under which it was delivered   ARGV[2] group   ARGV[3] consumer   ARGV[4] id   ARGV[5...] fields and values of the dead letter
-- Reply: {"ok"} | {"lost"} | {"gone"}: not pending for this consumer, settled or moved already
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
if #redis.call('XPENDING', KEYS[2], ARGV[2], ARGV[4], ARGV[4], 1, ARGV[3]) == 0 then return {'gone'} end
local t = redis.call('TYPE', KEYS[3]).ok
if t ~= 'none' and t ~= 'stream' then return redis.error_reply('WRONGTYPE ' .. KEYS[3] .. ' is a ' .. t) end
redis.call('XADD', KEYS[3], '*', unpack(ARGV, 5))
redis.call('XACK', KEYS[2], ARGV[2], ARGV[4])
redis.call('XDEL', KEYS[2], ARGV[4])
return {'ok'}
