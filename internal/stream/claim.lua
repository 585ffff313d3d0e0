-- claim.lua: give one page of the entries that a consumer holds to this worker: a dead one's, or its own again.
-- KEYS[1] heartbeat of this worker   KEYS[2] heartbeat of the holder, = KEYS[1] for its own   KEYS[3] stream
-- ARGV[1] token of this worker   ARGV[2] group   ARGV[3] consumer of this worker   ARGV[4] consumer that holds
-- ARGV[5] what marks a take-over, the beginning of its token   ARGV[6] time to live of that token, ms
-- ARGV[7] first id to look at, "-" = the oldest   ARGV[8] entries at most, >= 1
-- Reply: {"lost"}: this worker is no longer itself | {"alive"}: the holder lives
--   | {"ok", last id looked at or "", {id whose data is gone, acknowledged away...}, {id, starts so far, {field, value...}}...}
-- A dead holder's token is replaced first; a holder with nothing left is deleted as consumer.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'lost'} end
local own = KEYS[1] == KEYS[2]
if not own then
  local held = redis.call('GET', KEYS[2])
  if held and string.sub(held, 1, #ARGV[5]) ~= ARGV[5] then return {'alive'} end
  redis.call('DEL', KEYS[2]) -- a full server refuses SET as the first write of a script, and what it is full of is to be taken over
  redis.call('SET', KEYS[2], ARGV[5] .. ARGV[3] .. ' ttl=' .. ARGV[6], 'PX', ARGV[6])
end
local last, gone = '', {}
local reply = {'ok', last, gone}
local page = redis.call('XPENDING', KEYS[3], ARGV[2], ARGV[7], '+', ARGV[8], ARGV[4])
for _, p in ipairs(page) do
  last = p[1]
  local got = redis.call('XCLAIM', KEYS[3], ARGV[2], ARGV[3], 0, p[1], 'RETRYCOUNT', p[4])
  if got[1] and got[1][2] then
    reply[#reply + 1] = {p[1], p[4], got[1][2]}
  else
    redis.call('XACK', KEYS[3], ARGV[2], p[1])
    gone[#gone + 1] = p[1]
  end
end
reply[2] = last
if not own and #redis.call('XPENDING', KEYS[3], ARGV[2], '-', '+', 1, ARGV[4]) == 0 then
  redis.call('XGROUP', 'DELCONSUMER', KEYS[3], ARGV[2], ARGV[4])
end
return reply
