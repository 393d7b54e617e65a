import { render } from "preact";
import { ErrorBoundary, LocationProvider } from "preact-iso";
import { Pages } from "./pages.tsx";
import { Keys } from "./parts/frame/keys.tsx";
import { Toasts } from "./parts/toast.tsx";
import { renewSession } from "./session.ts";
import "./theme.ts";

void renewSession();

const root = document.getElementById("app");
if (root) {
  render(
    <LocationProvider>
      <ErrorBoundary>
        <Pages />
      </ErrorBoundary>
      <Keys />
      <Toasts />
    </LocationProvider>,
    root,
  );
}
