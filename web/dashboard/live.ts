import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiFailure } from "./api.ts";

export type Polled<T> = {
  /** The last successful response, kept while later requests fail. */
  data: T | null;
  error: ApiFailure | null;
  loading: boolean;
  reload: () => void;
};

const INTERVAL_MS = 5_000;

/**
 * Polls while the page is visible, and at once when it becomes visible. With `everyMs` 0 it reads once.
 */
export function usePolling<T>(read: () => Promise<T>, deps: readonly unknown[], everyMs = INTERVAL_MS): Polled<T> {
  const [state, setState] = useState<Omit<Polled<T>, "reload">>({ data: null, error: null, loading: true });
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
      setState(({ data }) => ({ data, error: toApiFailure(error), loading: false }));
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

type LiveList<Row> = Polled<Row[]> & { more: boolean; showMore: () => void };

type Paged<Row> = { rows: Row[]; next: string | undefined };

/** A list that is loaded page by page; a poll reloads all visible pages. */
export function useList<Row>(
  read: (page: { limit: number; cursor?: string }) => Promise<Paged<Row>>,
  deps: readonly unknown[],
  everyMs = INTERVAL_MS,
): LiveList<Row> {
  const pages = useRef(1);
  useEffect(() => {
    pages.current = 1;
  }, deps);
  const live = usePolling(
    async () => {
      const list: Paged<Row> = { rows: [], next: undefined };
      for (let page = 0; page < pages.current; page++) {
        const { rows, next } = await read({ limit: 50, ...(list.next && { cursor: list.next }) });
        list.rows.push(...rows);
        list.next = next;
        if (next === undefined) break;
      }
      return list;
    },
    deps,
    everyMs,
  );
  return {
    ...live,
    data: live.data?.rows ?? null,
    more: live.data?.next !== undefined,
    showMore() {
      pages.current += 1;
      live.reload();
    },
  };
}

export function toApiFailure(error: unknown): ApiFailure {
  if (error instanceof ApiFailure) return error;
  return new ApiFailure(0, "PAGE_ERROR", error instanceof Error ? error.message : String(error), null, []);
}
