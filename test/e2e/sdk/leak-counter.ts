import type { Page } from "playwright-core";

declare global {
  interface Window {
    /** The number of live objects that the page has created, by kind. */
    left: () => Record<string, number>;
  }
}

/** Counts from now on everything that a library could leave behind in the page. */
export async function countLeaks(page: Page): Promise<void> {
  // Playwright adds listeners on its first wait, which must not be counted.
  await page.waitForFunction(() => true);
  await page.evaluate(() => {
    const timers = new Set<unknown>();
    // Weak references keep the counter from holding a call in memory.
    const open = {
      connections: [] as WeakRef<object>[],
      sockets: [] as WeakRef<object>[],
      tracks: [] as WeakRef<object>[],
    };
    const observers = new Map<object, Set<Element>>();
    const listeners = new Map<EventTarget, Map<string, Set<unknown>>>();

    for (const [start, stop] of [
      ["setTimeout", "clearTimeout"],
      ["setInterval", "clearInterval"],
    ] as const) {
      const [begin, end] = [window[start].bind(window), window[stop].bind(window)];
      Object.assign(window, {
        [start](run: () => void, ms?: number) {
          const once = () => {
            if (start === "setTimeout") timers.delete(id);
            run();
          };
          const id = begin(once, ms);
          timers.add(id);
          return id;
        },
        [stop](id: number) {
          timers.delete(id);
          end(id);
        },
      });
    }

    const counted = (Class: "RTCPeerConnection" | "WebSocket", into: WeakRef<object>[]) => {
      Object.assign(window, {
        [Class]: new Proxy(window[Class], {
          construct(target, args) {
            const one = Reflect.construct(target, args);
            into.push(new WeakRef(one));
            return one;
          },
        }),
      });
    };
    counted("RTCPeerConnection", open.connections);
    counted("WebSocket", open.sockets);

    const getUserMedia = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    navigator.mediaDevices.getUserMedia = async (constraints) => {
      const stream = await getUserMedia(constraints);
      for (const track of stream.getTracks()) open.tracks.push(new WeakRef(track));
      return stream;
    };

    for (const Observer of [ResizeObserver, IntersectionObserver]) {
      const { observe, unobserve, disconnect } = Observer.prototype;
      Object.assign(Observer.prototype, {
        observe(this: ResizeObserver, element: Element) {
          observers.set(this, (observers.get(this) ?? new Set()).add(element));
          observe.call(this as never, element);
        },
        unobserve(this: ResizeObserver, element: Element) {
          observers.get(this)?.delete(element);
          unobserve.call(this as never, element);
        },
        disconnect(this: ResizeObserver) {
          observers.delete(this);
          disconnect.call(this as never);
        },
      });
    }

    // Only listeners of objects that outlive a call are counted; those of a closed connection go with it.
    const lasting = new Set<EventTarget>([window, document, navigator.mediaDevices]);
    if ("connection" in navigator) lasting.add(navigator.connection as EventTarget);
    const { addEventListener, removeEventListener } = EventTarget.prototype;
    const known = (target: EventTarget, type: string) => {
      const ofTarget = listeners.get(target) ?? new Map<string, Set<unknown>>();
      listeners.set(target, ofTarget);
      const ofType = ofTarget.get(type) ?? new Set<unknown>();
      ofTarget.set(type, ofType);
      return ofType;
    };
    Object.assign(EventTarget.prototype, {
      addEventListener(this: EventTarget | undefined, ...args: Parameters<EventTarget["addEventListener"]>) {
        const target = this ?? window;
        if (lasting.has(target)) known(target, args[0]).add(args[1]);
        addEventListener.apply(target, args);
      },
      removeEventListener(this: EventTarget | undefined, ...args: Parameters<EventTarget["removeEventListener"]>) {
        const target = this ?? window;
        if (lasting.has(target)) known(target, args[0]).delete(args[1]);
        removeEventListener.apply(target, args);
      },
    });

    const alive = (ref: WeakRef<object>) => {
      const one = ref.deref();
      if (!one) return false;
      if (one instanceof MediaStreamTrack) return one.readyState === "live";
      if (one instanceof WebSocket) return one.readyState !== WebSocket.CLOSED;
      return (one as RTCPeerConnection).connectionState !== "closed";
    };
    window.left = () => ({
      timers: timers.size,
      ...Object.fromEntries(Object.entries(open).map(([kind, all]) => [kind, all.filter(alive).length])),
      observers: [...observers.values()].filter(({ size }) => size > 0).length,
      listeners: [...listeners.values()]
        .flatMap((types) => [...types.values()])
        .reduce((sum, { size }) => sum + size, 0),
      elements: document.querySelectorAll("audio, video").length,
    });
  });
}
