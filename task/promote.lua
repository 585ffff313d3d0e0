-- promote.lua: move due tasks from the delayed set to their streams.
-- KEYS[1] delayed zset   KEYS[2] dead letters   KEYS[3] index of the dead letters   KEYS[4] blocked hash   KEYS[5...] the streams
-- ARGV    in fours: index of the stream from 1, message, its id if it was ever blocked, else "", ""; for a message that belongs to none: "0", message, an id,
--         the dead letter
-- Reply: {how many were moved, how many were put off for a minute since their stream is a key of another type}. One that another process moved before,
-- or that was put off meanwhile, is left alone.
-- What is moved is added before it is removed: a failure in the middle may repeat a task, and never loses one.
local t = redis.call('TIME')
local now = t[1] + t[2] / 1000000
local moved, late, fit = 0, 0, {}
for i = 1, #ARGV, 4 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i + 1])
  if score and tonumber(score) <= now + 0.0005 then
    local stream = KEYS[4 + ARGV[i]]
    if ARGV[i] ~= '0' and fit[stream] == nil then
      local kind = redis.call('TYPE', stream).ok
      fit[stream] = kind == 'none' or kind == 'stream'
    end
    if ARGV[i] ~= '0' and not fit[stream] then
      redis.call('ZADD', KEYS[1], string.format('%.3f', now + 60), ARGV[i + 1])
      late = late + 1
    elseif ARGV[i] == '0' then
      redis.call('HSET', KEYS[2], ARGV[i + 2], ARGV[i + 3])
      redis.call('ZADD', KEYS[3], string.format('%.0f', now * 1000), ARGV[i + 2])
    else
      redis.call('XADD', stream, '*', 'data', ARGV[i + 1])
      if ARGV[i + 2] ~= '' and redis.call('HGET', KEYS[4], ARGV[i + 2]) == ARGV[i + 1] then redis.call('HDEL', KEYS[4], ARGV[i + 2]) end
    end
    if ARGV[i] == '0' or fit[stream] then
      redis.call('ZREM', KEYS[1], ARGV[i + 1])
      moved = moved + 1
    end
  end
end
return {moved, late}
