-- entities.lua: who is there. Those who were not heard of for too long are removed.
-- KEYS[1] entities (hash)
-- Reply: {JSON ...}
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local all, living = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local till, json = string.match(all[i + 1], '^(%d+) (.*)$')
  if till and tonumber(till) > ms then
    living[#living + 1] = json
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return living
