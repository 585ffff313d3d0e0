-- intakedead.lua: append a dead letter; the oldest go while there are too many, or too many bytes of them.
-- KEYS[1]  intake:dead, stream
-- ARGV[1]  how many at most   ARGV[2]  how many bytes of their field event at most   ARGV[3...]  fields and values of the letter
-- Reply    number of letters, this one included
local t = redis.call('TYPE', KEYS[1]).ok
if t ~= 'none' and t ~= 'stream' then return redis.error_reply('WRONGTYPE ' .. KEYS[1] .. ' is a ' .. t) end
-- Nothing above this line writes.
redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', unpack(ARGV, 3))
local keep, bytes = 0, 0
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-')) do
  for i = 1, #entry[2], 2 do
    if entry[2][i] == 'event' then bytes = bytes + #entry[2][i + 1] end
  end
  if keep > 0 and bytes > tonumber(ARGV[2]) then break end
  keep = keep + 1
end
redis.call('XTRIM', KEYS[1], 'MAXLEN', keep)
return keep
