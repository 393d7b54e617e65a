/**
 * The same entries, copied to lie together. The engine never moves what it has given a place: what is kept of a storm lies
 * scattered among what was thrown away since, a few bytes in each of its blocks, and all of those blocks stay. The copies
 * fill the first that have room, and with the next collection the others go. For plain data, as JSON has it.
 */
export function repacked<Value>(entries: ReadonlyMap<string, Value>): Map<string, Value> {
  return new Map(JSON.parse(JSON.stringify([...entries])) as [string, Value][]);
}
