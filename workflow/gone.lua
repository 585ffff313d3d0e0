-- gone.lua: tell an instance that one of its activities is gone, once.
-- KEYS[1] run:{id}
-- ARGV[2] id   ARGV[3] execution   ARGV[4] ref   ARGV[5] queue   ARGV[6] entry   ARGV[7] event
-- Reply: {"ok"} | {"none"}: nobody waits for it
local r = call('HMGET', KEYS[1], 'x', 'a:' .. ARGV[4])
if r[1] ~= ARGV[3] or r[2] ~= ARGV[6] .. ' ' .. ARGV[5] then return {'none'} end
give(ARGV[2], ARGV[3], ARGV[7], '0')
call('HDEL', KEYS[1], 'a:' .. ARGV[4])
return {'ok'}
