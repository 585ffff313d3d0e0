-- act.lua: do one thing to what belongs to this shard: start an instance, give an event to one, or what a message of another shard says.
-- KEYS[1] run:{id}, or the gate   ARGV[2] id under which it is done once, "" = it bears repetition   ARGV[3] ms for which that is remembered
-- ARGV[4...] words of act
-- Reply: {what act returns} | {"dup"}: done before

-- seen says whether an id was noted, and is still to be remembered.
local function seen(id)
  local known = call('ZSCORE', B .. 'seen', id)
  return known and tonumber(known) > clock()
end

-- note remembers an id for some ms, and forgets some whose time is over.
local function note(id, ms)
  local now = clock()
  for _, old in ipairs(call('ZRANGE', B .. 'seen', '-inf', now, 'BYSCORE', 'LIMIT', 0, 10)) do call('ZREM', B .. 'seen', old) end
  call('ZADD', B .. 'seen', now + ms, id)
end

if ARGV[2] ~= '' then
  -- An event that finds nobody must not be taken for delivered when it comes again.
  if seen(ARGV[2]) then return {'dup'} end
  local r = act(unpack(ARGV, 4))
  if r ~= 'gone' and r ~= 'later' then note(ARGV[2], tonumber(ARGV[3])) end
  return {r}
end
return {act(unpack(ARGV, 4))}
