-- worker_acquire.lua: put a new token into a worker's heartbeat.
-- KEYS[1] heartbeat of the worker
-- ARGV[1] new token, the same for all tries of one acquisition   ARGV[2] time to live, ms
-- ARGV[3] "1" = whatever is there, "0" = not if another process lives under this id
-- ARGV[4] what marks a take-over, the beginning of its token   ARGV[5] the worker's token before, "" = none
-- ARGV[6] server time in ms from which on this try is late; "0": the caller asks for the time
-- Reply: {"ok"} | {"taken", the other's token} | {"late", server time in ms}
-- A server that hung executes what was sent meanwhile: by then the worker may have stopped, or may have been replaced.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if now >= tonumber(ARGV[6]) then return {'late', string.format('%.0f', now)} end
local held = redis.call('GET', KEYS[1])
if held and ARGV[3] ~= '1' and held ~= ARGV[1] and held ~= ARGV[5] and string.sub(held, 1, #ARGV[4]) ~= ARGV[4] then
  return {'taken', held}
end
redis.call('DEL', KEYS[1]) -- a full server refuses SET as the first write of a script, and without a worker it stays full
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {'ok'}
