-- extend.lua: say whether a task is still its worker's.
-- KEYS[1] heartbeat of the worker   KEYS[2] run:{id}
-- ARGV[2] token   ARGV[3] what the field must be   ARGV[4] field   ARGV[5] execution
-- Reply: {"ok"} | {"lost"}
if call('GET', KEYS[1]) ~= ARGV[2] then return {'lost'} end
local r = call('HMGET', KEYS[2], 'x', ARGV[4])
if r[1] ~= ARGV[5] or r[2] ~= ARGV[3] then return {'lost'} end
return {'ok'}
