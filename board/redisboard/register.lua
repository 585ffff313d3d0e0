-- register.lua: say that an entity is there, for a while.
-- KEYS[1] entities (hash)
-- ARGV[1] field   ARGV[2] its JSON   ARGV[3] ms it is believed in
-- Reply: 'ok'
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[3]) .. ARGV[2])
return 'ok'
