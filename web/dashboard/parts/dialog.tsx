import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

type DialogProps = { title: string; onClose: () => void; children: ComponentChildren };

/** A native dialog, which traps the focus, closes on Escape and restores the focus. */
export function Dialog({ title, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const opener = document.activeElement;
    element.current?.showModal();
    return () => {
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog ref={element} class="dialog" aria-label={title} onClose={onClose}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="button quiet" aria-label="Close" onClick={() => element.current?.close()}>
          ×
        </button>
      </header>
      {children}
    </dialog>
  );
}
