-- remove.lua: remove executions that have ended, with their history.
-- ARGV[2] 1 = drop only what is left of those whose document has expired   ARGV[3...] id and execution of each
-- Reply: a word for each: ok | active | none | kept: it has not expired
local out = {}
for i = 3, #ARGV, 2 do
  local id, x = ARGV[i], ARGV[i + 1]
  local member = id .. ':' .. x
  if call('HGET', B .. 'run:' .. id, 'x') == x then
    call('ZREM', B .. 'ended', member) -- it was started again after its document had expired
    out[#out + 1] = 'active'
  elseif ARGV[2] == '1' and call('EXISTS', B .. 'doc:' .. member) == 1 then
    out[#out + 1] = 'kept'
  else
    out[#out + 1] = call('DEL', B .. 'doc:' .. member) == 1 and 'ok' or 'none'
    call('DEL', B .. 'his:' .. member)
    call('ZREM', B .. 'ended', member)
    call('ZREM', B .. 'created', member)
    if call('GET', B .. 'last:' .. id) == x then call('DEL', B .. 'last:' .. id) end
  end
end
return out
