-- await.lua: ask to be told when a task's result is there, and look whether it is.
-- KEYS[1] awaited hash   KEYS[2] result
-- ARGV[1] task id   ARGV[2] who asks: the name of a channel, without commas
-- Reply: the result (then nobody is told), or nil
local result = redis.call('GET', KEYS[2])
if result then return result end
local who = redis.call('HGET', KEYS[1], ARGV[1])
if not who or who == '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
elseif not string.find(',' .. who .. ',', ',' .. ARGV[2] .. ',', 1, true) then
  redis.call('HSET', KEYS[1], ARGV[1], who .. ',' .. ARGV[2])
end
return false
