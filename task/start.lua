-- start.lua: release the key that a task holds until it starts.
-- KEYS[1] start key
-- ARGV[1] task id
-- Reply: {"ok"} | {"other"}: another task holds it, or none
if redis.call('TYPE', KEYS[1]).ok ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'other'} end
redis.call('DEL', KEYS[1])
return {'ok'}
