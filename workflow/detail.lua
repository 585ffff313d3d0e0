-- detail.lua: look at one execution, and change nothing.
-- KEYS[1] run:{id}   KEYS[2] last:{id}
-- ARGV[2] id   ARGV[3] execution, "" = the newest   ARGV[4] most activities and timers to return
-- Reply: {"none"}: there is none
--   | {"ok", document, now: Unix ms, "1" = active, events that wait, "1" = paused, gate it waits at, "1" = its queue is paused, where its task is, whose,
--      number of open activities, {ref, queue, where, whose, deliveries, event}..., number of timers, {ref, due: Unix ms, event}...}
-- Where is waiting, running, held, or "": there is none; whose is the worker that runs it.
local id, x, most = ARGV[2], ARGV[3], tonumber(ARGV[4])
if x == '' then x = call('GET', KEYS[2]) or '' end
local doc = call('GET', B .. 'doc:' .. id .. ':' .. x)
if not doc then return {'none'} end

-- before is how often an entry was begun under another id.
local function before(fields)
  for i = 1, #(fields or {}), 2 do
    if fields[i] == 'n' then return tonumber(fields[i + 1]) end
  end
  return 0
end

-- place finds an entry of a queue: where, whose, deliveries, fields.
local function place(kind, queue, entry)
  if string.sub(entry, 1, 1) == 'h' then
    local held = string.sub(entry, 2)
    local m = call('XRANGE', B .. 'held:' .. kind .. ':' .. queue, held, held)[1]
    return 'held', '', before(m and m[2]), m and m[2]
  end
  local stream = B .. kind .. ':' .. queue
  local m = call('XRANGE', stream, entry, entry)[1]
  local pending = redis.pcall('XPENDING', stream, GROUP, entry, entry, 1) -- without a group nobody has read yet
  local p = not pending.err and pending[1]
  if not p or string.sub(p[2], -5) == ':back' then return 'waiting', '', (p and p[4] or 0) + before(m and m[2]), m and m[2] end
  return 'running', p[2], p[4] + before(m and m[2]), m and m[2]
end

local run = {}
local all = call('HGETALL', KEYS[1])
for i = 1, #all, 2 do run[all[i]] = all[i + 1] end
local now = string.format('%d', clock())
if run['x'] ~= x then return {'ok', doc, now, '0', 0, '0', '', '0', '', '', 0, {}, 0, {}} end

local where, whose = '', ''
if run['e'] and run['e'] ~= '' then where, whose = place('tasks', run['q'], run['e']) end
local activities, timers, open, set = {}, {}, 0, 0
for k, v in pairs(run) do
  local kind, ref = string.sub(k, 1, 2), string.sub(k, 3)
  if kind == 'a:' then
    open = open + 1
    if open <= most then
      local entry, queue = string.match(v, '^([^ ]*) (.*)$')
      local at, who, times, fields = place('activities', queue, entry)
      activities[#activities + 1] = {ref, queue, at, who, times, fields and fields[8] or ''}
    end
  elseif kind == 't:' then
    set = set + 1
    if set <= most then
      local due = call('ZSCORE', B .. 'timers', ref .. ':' .. x .. ':' .. id)
      timers[#timers + 1] = {ref, due and string.format('%d', tonumber(due)) or '', v}
    end
  end
end
return {'ok', doc, now, '1', call('XLEN', B .. 'in:' .. id), run['p'] or '0', run['g'] or '',
  tostring(call('SISMEMBER', B .. 'paused', run['q'])), where, whose, open, activities, set, timers}
