import { useCallback, useRef, useSyncExternalStore } from "react";

type Subscribe = (changed: () => void) => () => void;

/**
 * Reads a value from an object outside React. `compute` runs again only after `listen` reports a change or when `source`
 * changes: React compares the value by identity and would render endlessly if every read returned a new list.
 */
export function useSnapshot<Source, Value>(
  source: Source,
  listen: (source: Source) => Subscribe,
  compute: (source: Source) => Value,
): Value {
  const cache = useRef<{ source: Source; value: Value } | null>(null);
  const subscribe = useCallback(
    (changed: () => void) => {
      // A change between the first render and this subscription is picked up, because the next read computes again.
      cache.current = null;
      return listen(source)(() => {
        cache.current = null;
        changed();
      });
    },
    [source, listen],
  );
  const read = () => {
    if (cache.current === null || cache.current.source !== source) cache.current = { source, value: compute(source) };
    return cache.current.value;
  };
  return useSyncExternalStore(subscribe, read, read);
}
