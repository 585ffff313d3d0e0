-- await.lua: the end of an execution, or word of it as soon as there is one.
-- KEYS[1] run:{id}   KEYS[2] document   KEYS[3] history   ARGV[2] execution   ARGV[3] who is to be told, on the channel await:{who}
-- Reply: {"ended", document, last event} | {"active"}: who is told | {"none"}
local doc = call('GET', KEYS[2])
if not doc then return {'none'} end
if call('HGET', KEYS[1], 'x') ~= ARGV[2] then return {'ended', doc, call('LINDEX', KEYS[3], -1) or ''} end
local who = call('HGET', KEYS[1], 'w')
if not who then
  call('HSET', KEYS[1], 'w', ARGV[3])
elseif not string.find(',' .. who .. ',', ',' .. ARGV[3] .. ',', 1, true) then
  -- Those who gave up are not taken out; the list stays short, and who is pushed out of it finds out by asking.
  local _, others = string.gsub(who, ',', '')
  if others >= 31 then who = string.match(who, ',(.*)$') end
  call('HSET', KEYS[1], 'w', who .. ',' .. ARGV[3])
end
return {'active'}
