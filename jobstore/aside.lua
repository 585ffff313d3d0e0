-- aside.lua: keep a message that holds up others at the broker, unless too much is kept already.
-- KEYS[1] intake:aside:{queue}, stream   KEYS[2] intake:aside-bytes, hash
-- ARGV[1] field of KEYS[2]   ARGV[2] how many bytes may be kept   ARGV[3] kind   ARGV[4] message
-- Reply   {"ok"} | {"full"}
local held = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
if redis.call('TYPE', KEYS[1]).ok == 'none' or redis.call('XLEN', KEYS[1]) == 0 then held = 0 end
if held > 0 and held + #ARGV[4] > tonumber(ARGV[2]) then return {'full'} end
-- Nothing above this line writes.
redis.call('XADD', KEYS[1], '*', 'kind', ARGV[3], 'message', ARGV[4])
redis.call('HSET', KEYS[2], ARGV[1], held + #ARGV[4])
return {'ok'}
