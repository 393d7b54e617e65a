/** What React reads from an object that lives outside of it: the same value until something changes. */
import { useCallback, useRef, useSyncExternalStore } from "react";

type Listen = (changed: () => void) => () => void;

/**
 * `compute` is asked again only after `listen` has told of a change or `source` is another one. React compares what it
 * returns by identity, and would render for ever over a list that is made anew at every look.
 */
export function useSnapshot<Source, Value>(
  source: Source,
  listen: (source: Source) => Listen,
  compute: (source: Source) => Value,
): Value {
  const cache = useRef<{ source: Source; value: Value } | null>(null);
  const subscribe = useCallback(
    (changed: () => void) => {
      // What happened between the first look and this moment is not missed: the next look is a fresh one.
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
