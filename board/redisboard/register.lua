-- register.lua: say that an entity is there, for a while.
-- KEYS[1] entities (hash)
-- ARGV[1] field   ARGV[2] its JSON   ARGV[3] ms it is believed in   ARGV[4] "1" = remove those whose time is over, which were killed
-- Reply: 'ok'
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', ms + ARGV[3]) .. ARGV[2])
if ARGV[4] == '1' then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local till = string.match(all[i + 1], '^(%d+) ')
    if not till or tonumber(till) <= ms then redis.call('HDEL', KEYS[1], all[i]) end
  end
end
return 'ok'
