-- read.lua: read new entries of several streams, those of earlier streams first, without waiting.
-- KEYS    streams, in their order, each as often as it is to be read, then a bucket for each that has a rate, in the same order
-- ARGV[1] group   ARGV[2] consumer
-- ARGV[3...] for each of the streams: entries at most, of it and all before it together, and its rate: entries per second, "0" = none
-- Reply: {{index in KEYS from 1, {{id, {field, value...}}...}}...}, {} = nothing new
-- A bucket holds the time, in microseconds, up to which its stream's entries are accounted for; a tenth of a second's worth may be saved up.
local streams = (#ARGV - 2) / 2
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local reply, taken, bucket = {}, 0, streams
for i = 1, streams do
  local count, rate, slot, used = tonumber(ARGV[1 + 2 * i]) - taken, tonumber(ARGV[2 + 2 * i]), 0, 0
  if rate > 0 then
    bucket = bucket + 1
    slot = 1000000 / rate
    used = math.max(tonumber(redis.call('GET', KEYS[bucket]) or '0'), now - math.max(slot, 100000))
    count = math.min(count, math.floor((now - used) / slot + 0.000001))
  end
  if count > 0 then
    local got = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', count, 'STREAMS', KEYS[i], '>')
    if got and got[1] then
      local n = #got[1][2]
      reply[#reply + 1] = {i, got[1][2]}
      taken = taken + n
      if rate > 0 then
        redis.call('SET', KEYS[bucket], string.format('%.0f', used + n * slot), 'PX', math.ceil(slot / 1000) + 1000)
      end
    end
  end
end
return reply
