import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiFailure } from "./api.ts";

export type Live<T> = {
  /** The last good answer; kept while a later one fails. */
  data: T | null;
  error: ApiFailure | null;
  loading: boolean;
  reload: () => void;
};

const EVERY_MS = 5_000;

/**
 * Numbers that stay true without reloading: polled while the page is visible, and at once when it becomes so. A poll
 * that nobody looks at is not made. `everyMs` 0 reads once.
 */
export function useLive<T>(read: () => Promise<T>, deps: readonly unknown[], everyMs = EVERY_MS): Live<T> {
  const [state, setState] = useState<Omit<Live<T>, "reload">>({ data: null, error: null, loading: true });
  const latest = useRef(read);
  latest.current = read;
  const run = useRef(0);

  const load = useCallback(async () => {
    const mine = ++run.current;
    try {
      const data = await latest.current();
      if (mine === run.current) setState({ data, error: null, loading: false });
    } catch (error) {
      if (mine !== run.current) return;
      setState(({ data }) => ({ data, error: asFailure(error), loading: false }));
    }
  }, []);

  useEffect(() => {
    setState({ data: null, error: null, loading: true });
    void load();
    const tick = () => {
      if (document.visibilityState === "visible") void load();
    };
    const timer = everyMs > 0 ? setInterval(tick, everyMs) : undefined;
    document.addEventListener("visibilitychange", tick);
    return () => {
      run.current += 1;
      clearInterval(timer);
      document.removeEventListener("visibilitychange", tick);
    };
  }, [...deps, everyMs]);

  return { ...state, reload: () => void load() };
}

export function asFailure(error: unknown): ApiFailure {
  return error instanceof ApiFailure ? error : new ApiFailure(0, "PAGE_ERROR", String(error), null, []);
}
