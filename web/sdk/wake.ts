type NetworkInformation = EventTarget;

/**
 * Calls `listener` when the network may have changed or the page becomes active again. Returns a function that removes
 * the listeners. Does nothing outside a page.
 */
export function onWake(listener: () => void): () => void {
  if (typeof document === "undefined") return () => {};
  const connection = (navigator as Navigator & { connection?: NetworkInformation }).connection;
  const onVisible = () => document.visibilityState === "visible" && listener();
  addEventListener("online", listener);
  addEventListener("pageshow", listener);
  document.addEventListener("visibilitychange", onVisible);
  connection?.addEventListener("change", listener);
  return () => {
    removeEventListener("online", listener);
    removeEventListener("pageshow", listener);
    document.removeEventListener("visibilitychange", onVisible);
    connection?.removeEventListener("change", listener);
  };
}
