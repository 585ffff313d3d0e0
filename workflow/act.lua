-- act.lua: do one thing to what belongs to this shard: start an instance, give an event to one, or what a message of another shard says.
-- KEYS[1] run:{id}, or the gate   ARGV[2] id under which it is done once, "" = it bears repetition   ARGV[3] ms for which that is remembered
-- ARGV[4...] words of act
-- Reply: {what act returns} | {"dup"}: done before
local ungated = ARGV[4] == 'start' and ARGV[12] == '' -- nearly all are
local no = denied(ungated and {'SET', 'ZADD', 'ZREM', 'SADD', 'HINCRBY', 'XADD', 'DEL', 'HSET', 'PUBLISH'} or nil)
if no then return no end
if ARGV[2] ~= '' then
  -- An event that finds nobody must not be taken for delivered when it comes again.
  if seen(ARGV[2]) then return {'dup'} end
  local r = act(unpack(ARGV, 4))
  if r ~= 'gone' and r ~= 'later' then note(ARGV[2], tonumber(ARGV[3])) end
  return {r}
end
return {act(unpack(ARGV, 4))}
