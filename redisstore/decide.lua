-- Decides a batch of operations on buckets, by the arithmetic of store.Record, operation for
-- operation on the same doubles. Go repeats it on the texts that this script found, and so has the
-- answers. A lone caller pays for each function and table: hence few of them.
-- KEYS are the keys of the batch. A script without KEYS has them first in ARGV; they may be of any
-- slots that this server of a cluster owns. The last of ARGV is JSON:
--   skew    MaxSkew in microseconds
--   clock   the time; without it, that is the server's, and keys expire
--   txns    the transactions: an operation each, or an array of several
-- An operation has key (a number; without it, that of the transaction), limit (a text; '' is the
-- limit last written), capacity, rate (without these three, those of the operation before), mode
-- (without it, iffits), amount, least (in mode upto, which iffits with this field is), hold, ceiling, since (the time of the ceiling), begins (of the period that ends at -rate), block (microseconds,
-- or -1: until the bucket is empty) and times: how often to carry it out, until it is refused. What
-- is absent is 0.
-- The answer is the clock, and for each key the text that was there, or an error, or an array of the
-- error of its write.
-- A rate below 0 is the time at which the bucket empties; nothing leaks before.
-- Times are microseconds since 1970. A double holds all from -2^53 to forever exactly.
local forever, none = 9007199254740992, -1 / 0 -- none: there is no block
local never = 4611686018427387 -- a time of that many microseconds has no end
local most, many = 2 ^ 53, 2 ^ 106 -- of a limit, and of a level; see Record.Validate
local pcall, match, format = redis.pcall, string.match, string.format
local max, min, ceil = math.max, math.min, math.ceil

local batch, keys = cjson.decode(ARGV[#ARGV]), KEYS
if #keys == 0 then
  keys, ARGV[#ARGV] = ARGV, nil
end
local clock, skew, txns = batch.clock, batch.skew, batch.txns
if not clock then
  local time = pcall('TIME')
  if time.err then
    return time
  end
  clock = time[1] * 1000000 + time[2]
end

local limits, last = {}, nil -- tables with capacity and rate, by the texts of limits
for n = 1, #txns do
  local txn = txns[n]
  for j = 1, txn[1] and #txn or 1 do
    local o = txn[j] or txn
    o.key, o.limit = o.key or n, o.limit or last
    last, limits[o.limit] = o.limit, limits[o.limit] or o.rate and o
  end
end

-- minute returns the end of a bucket in minutes, or false for never. Redis removes it some minutes
-- after it has expired. Most writes leave the minute as it is, and then need not set it.
local function minute(r)
  local l = limits[r.limit or '']
  local ends = max(not l and r.at or l.rate > 0 and r.at + r.level / l.rate * 1000000 or l.rate < 0 and -l.rate or forever, r.blocked)
  return r.held == 0 and ends < forever and not batch.clock and ceil(ends / 60000000)
end

-- A bucket is a text: level, time, capacity, leak rate; and, where there are any, held units and the
-- end of the block. Its limit is 0 0, and nil here, if it has only been blocked. It has 160 bytes at
-- most. GETRANGE takes as long for a text of megabytes, and does not tell an empty text from none.
local recs, answer = {}, {clock}
for i = 1, #keys do
  local raw = pcall('GETRANGE', keys[i], '0', '160')
  if raw == '' then
    raw = pcall('GET', keys[i])
  end
  answer[i + 1] = raw
  if not raw then
    recs[i] = {level = 0, at = clock, held = 0, blocked = none}
  elseif type(raw) == 'string' then
    local level, s, us, limit, rest = match(#raw <= 160 and raw or '', '^(%d[%d.e+-]*) (-?%d+)%.(%d%d%d%d%d%d) (%S+ %S+)(.*)$')
    local held, blocked, bs, bus, l = 0, none, nil, nil, limits[limit or '']
    level = tonumber(level)
    if rest and rest ~= '' then
      held, bs, bus = match(rest, '^ (%d[%d.e+-]*) (-?%d+)%.(%d%d%d%d%d%d)$')
      held, blocked = tonumber(held or match(rest, '^ (%d[%d.e+-]*)$')), bs and tonumber(bs .. bus) or none
    end
    if limit and not l then
      local cap, rate = match(limit, '^(%d[%d.e+-]*) (-?%d[%d.e+-]*)$')
      cap, rate = tonumber(cap), tonumber(rate)
      l = cap and rate and cap <= most and (rate == 0 or rate >= 1e-12 and rate <= most
        or rate <= -1e9 and rate >= -most and rate % 1 == 0) and {capacity = cap, rate = rate}
      if l and (cap + rate > 0 or rate < 0) then
        limits[limit] = l
      else
        l, limit = l and level == 0 and held == 0 and bs, nil
      end
    end
    local at = level and tonumber(s .. us)
    if l and level and held and max(level, held) <= many and max(at, -at, blocked) <= forever
      and (not bs or blocked >= -forever and blocked ~= 0) then
      local r = {level = level, at = at, limit = limit, held = held, blocked = blocked}
      recs[i], r.minute = r, minute(r)
      if at - clock > skew then -- Record.unskew, which the next operation writes
        if blocked > clock and blocked < forever then -- each difference is small enough for a double
          blocked = max(clock, at < 0 and blocked - (at - clock) or clock + (blocked - at))
          r.blocked = blocked == 0 and 1 or blocked
        end
        r.at, r.skewed = clock, true
      end
    else
      recs[i], answer[i + 1] = false, {err = 'DAMAGED'}
    end
  end
end

-- left is Record.LevelAt.
local function left(r, rate, now)
  if rate < 0 then
    return (now <= r.at or now < -rate) and r.level or 0
  end
  return max(0, r.level - rate * ((now - r.at) / 1000000))
end

-- refuse changes the bucket of an operation that is not accepted, unless a block lasts: it ends the
-- time at another rate if changes is set, and sets the block. A block by hand may prolong another.
local function refuse(r, o, changes)
  local now, l, was = max(r.at, clock), limits[o.limit], limits[r.limit or '']
  r.write = r.write or r.skewed
  if r.blocked > now and o.mode ~= 'block' then
    return
  end
  local level, long = r.level > 0 and left(r, was.rate, now) or 0, o.block or 0
  if changes and l and was and l.rate ~= was.rate then
    r.level, r.at, r.limit, r.write, was = level, now, o.limit, true, l
  end
  if long == -1 then
    long = level > 0 and (was.rate < 0 and -was.rate - now or ceil(level / was.rate * 1000000)) or 0
  end
  local till = long < never and min(now + long, forever) or forever
  if till > max(r.blocked, now) then
    r.blocked, r.limit, r.write = till == 0 and 1 or till, r.limit or l and o.limit, true
  end
end

-- fill is Record.Fill, and removes buckets. It returns whether the operation was accepted, or nil if
-- Fill returns an error.
local function fill(o)
  local r, mode, amount, hold = recs[o.key], o.mode, o.amount or 0, o.hold or 0
  local limit = o.limit ~= '' and o.limit or r.limit
  local l, was = limits[limit or ''], limits[r.limit or '']
  if o.begins and (max(r.at, clock) < o.begins or max(r.at, clock) >= -l.rate) then
    return nil -- the bucket is in another period
  elseif amount == 0 and hold == 0 then
    local past = clock - skew
    if mode == 'delete' or mode == 'prune' and (not was or was.rate ~= 0) and max(r.at, r.blocked) <= past
      and r.held == 0 and (r.level == 0 or left(r, was.rate, past) == 0) then
      recs[o.key] = {level = 0, at = clock, held = 0, blocked = none, write = true}
    elseif mode == 'block' then
      refuse(r, o, false)
    elseif mode == 'unblock' then
      r.blocked, r.write = none, r.write or r.skewed or r.blocked ~= none
    end
    return true
  elseif not l then
    return not (hold < 0 or amount > 0) or nil
  end
  was = was or l
  local held, rim, rate, now = r.held + hold, l.capacity, l.rate, max(r.at, clock)
  if hold ~= 0 then
    local most = max(rim, was.capacity)
    if hold > 0 and hold < most * 2 ^ -38 or hold < 0 and held < -(most * 2 ^ -40) then
      return nil
    elseif hold < 0 and held < most * 2 ^ -40 then
      held = 0
    end
  end
  if o.ceiling then
    rim = o.ceiling - (o.since and rate > 0 and rate * (max(0, now - o.since) / 1000000) or 0)
  end
  local before = left(r, was.rate, now)
  if o.least then -- Record.upTo
    local n = min(amount, math.floor(rim - (before + r.held)))
    if before + r.held + n > rim then
      n = n - 1
    end
    amount = max(n, o.least)
  end
  local after, room = max(0, before + amount), before + r.held + (amount + hold) <= rim
  if amount > 0 and after == before then -- an amount never goes in for nothing
    after = before + before * (2 ^ -53 + 2 ^ -105) -- the next double
    room = room and after + (r.held + hold) <= rim
  end
  local accepted = mode == 'always' or room and r.blocked <= now
  if (accepted or mode == 'clamp') and not (amount < 0 and hold == 0 and before == 0) then
    if before ~= r.level or before == 0 or rate <= 0 or rate ~= was.rate then
      r.at = now -- else the leak was lost in rounding
    end
    r.level = mode == 'clamp' and not room and max(before, rim - r.held) or after
    r.held, r.limit, r.write = held, limit, true
  end
  r.write = r.write or r.skewed
  if not accepted then
    refuse(r, o, amount + hold <= max(l.capacity, o.ceiling or 0))
  end
  return accepted
end

for n = 1, #txns do
  local txn, able = txns[n], true
  for j = 1, txn[1] and #txn or 1 do
    local o = txn[j] or txn
    if o.mode == 'delete' and recs[o.key] == false then
      recs[o.key] = {level = 0, at = clock, held = 0, blocked = none}
    end
    able = able and recs[o.key]
  end
  if able and not txn[1] then
    for _ = 1, txn.times or 1 do
      if not fill(txn) and not txn.mode then
        break -- the next would not go in either
      end
    end
  elseif able then -- store.Decide
    local before, refused, sums, asks, never, went = {}, {}, {}, false, false, true
    for _, o in ipairs(txn) do
      if not before[o.key] then
        before[o.key], recs[o.key] = recs[o.key], {}
        for name, value in pairs(before[o.key]) do
          recs[o.key][name] = value
        end
      end
      if went ~= nil then
        went = fill(o)
      end
      local sum, l = (sums[o.key] or 0) + ((o.least or o.amount or 0) + (o.hold or 0)), limits[o.limit]
      sums[o.key], asks, never = sum, asks or o.mode == 'ask', never or l and sum > max(l.capacity, o.ceiling or 0)
      refused[o] = went == false and (not o.mode or o.mode == 'ask') or nil
    end
    if went == nil or asks or next(refused) then
      for i, r in pairs(before) do
        recs[i] = r
      end
      for _, o in ipairs(went ~= nil and txn or {}) do
        if o.mode ~= 'ask' and not next(refused) then
          fill(o)
        elseif o.mode ~= 'ask' and (o.amount or o.hold) then
          o.block = refused[o] and o.block
          refuse(recs[o.key], o, not never)
        end
      end
    end
  end
end

-- The errors of commands are caught. The script returns one only if it has written nothing.
local any, failed = false, nil
for i = 1, #keys do
  local r, key, done = recs[i], keys[i], nil
  if r and r.write and (r.limit or r.blocked ~= none) then
    local t, b, ends = max(r.at, -r.at), max(r.blocked, -r.blocked), minute(r)
    local text = format('%.17g %s%d.%06d %s', r.level, r.at < 0 and '-' or '', t / 1000000, t % 1000000,
      r.limit or '0 0')
    if r.blocked ~= none then
      text = format('%s %.17g %s%d.%06d', text, r.held, r.blocked < 0 and '-' or '', b / 1000000, b % 1000000)
    elseif r.held > 0 then
      text = format('%s %.17g', text, r.held)
    end
    if ends and ends == r.minute then
      done = pcall('SET', key, text, 'KEEPTTL')
    elseif ends then
      done = pcall('SET', key, text, 'EXAT', ends * 60 + ceil(skew / 1000000) + 61)
    else
      done = pcall('SET', key, text)
    end
  elseif r and r.write then
    done = pcall('DEL', key)
  end
  if type(done) == 'table' and done.err then
    answer[i + 1], failed = {done}, done
  elseif done then
    any = true
  end
end
return not any and failed or answer
