-- read.lua: read new entries of several streams, those of earlier streams first, without waiting.
-- KEYS    streams, in their order
-- ARGV[1] group   ARGV[2] consumer   ARGV[3] entries at most, over all streams, >= 1
-- Reply: {{index of the stream from 1, {{id, {field, value...}}...}}...}, {} = nothing new
local reply, left = {}, tonumber(ARGV[3])
for i, key in ipairs(KEYS) do
  if left <= 0 then break end
  local got = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', left, 'STREAMS', key, '>')
  if got and got[1] then
    reply[#reply + 1] = {i, got[1][2]}
    left = left - #got[1][2]
  end
end
return reply
