import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import { App } from "./app.tsx";

const page = document.getElementById("page");
if (page) {
  page.replaceChildren();
  render(<App />, page);
}
