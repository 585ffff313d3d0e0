-- unawait.lua: do not ask any more.
-- KEYS[1] awaited hash
-- ARGV[1] task id   ARGV[2] who asked
-- Reply: {"ok"}
local who = redis.call('HGET', KEYS[1], ARGV[1])
if who then
  local rest = {}
  for name in string.gmatch(who, '[^,]+') do
    if name ~= ARGV[2] then rest[#rest + 1] = name end
  end
  if #rest == 0 then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], table.concat(rest, ',')) end
end
return {'ok'}
