-- lead.lua: take, keep or give back the right to submit periodic tasks.
-- KEYS[1] scheduler lock   KEYS[2] term of the last election
-- ARGV[1] "take", "keep" or "give"   ARGV[2] token of the caller   ARGV[3] ms until it expires ("take", "keep")
-- ARGV[4] term: "take", the last that the caller knows of; "keep", that of its election   ARGV[5] channel on which "give" tells the others
-- Reply: {1, term} | {0, ms after which it expires, -1 = never}: it is another scheduler's, or ("keep", "give") has none
-- A repeated "take" with one token is one more election: its first reply may have been lost. Terms grow even when Redis has forgotten them, as
-- long as the caller remembers one.
local holder = redis.call('GET', KEYS[1])
if ARGV[1] == 'take' then
  if holder and holder ~= ARGV[2] then return {0, redis.call('PTTL', KEYS[1])} end
  local last = tonumber(redis.call('GET', KEYS[2]) or '0') or 0
  local term = math.max(last, tonumber(ARGV[4])) + 1
  -- Without the right to SET the first write fails, and nothing is written.
  redis.call('SET', KEYS[2], string.format('%.0f', term))
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return {1, term}
end
if holder ~= ARGV[2] then return {0, 0} end
if ARGV[1] == 'keep' then
  if redis.call('GET', KEYS[2]) ~= ARGV[4] then return {0, 0} end
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
else
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[5], 'resigned')
end
return {1, tonumber(ARGV[4])}
